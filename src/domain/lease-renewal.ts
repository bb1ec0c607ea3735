// Not on leases themselves: their members are the public interface.
const RENEWALS = new WeakMap<object, () => void>();

/** Says how a lease is renewed from now on. */
export function setRenewal(lease: object, renew: () => void): void {
  RENEWALS.set(lease, renew);
}

/**
 * Renews the hold of a lease for as long as it is open. For middleware and adapters, right after the take: a stream may outlast a
 * hold. The lease of a limiter on a store has no hold, and nothing happens.
 */
export function renewWhileOpen(lease: object): void {
  RENEWALS.get(lease)?.();
}
