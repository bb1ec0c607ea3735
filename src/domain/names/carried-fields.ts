/** Header fields that a service has sent with a lease or a refusal. */
interface CarriedFields {
  /** The value of `RateLimit-Policy`. */
  readonly policy: string;
  /** The value of `RateLimit`. */
  readonly state: string;
  /** When they came, in ms since 1970. */
  readonly atMs: number;
}

// Not on leases and errors themselves: their members are the public interface.
const CARRIED = new WeakMap<object, CarriedFields>();

/** Keeps the fields that came with a lease or an error, so that a middleware can pass them on. */
export function carryFields(of: object, fields: CarriedFields): void {
  CARRIED.set(of, fields);
}

export function carriedBy(leaseOrError: object): CarriedFields | undefined {
  return CARRIED.get(leaseOrError);
}
