import { ValidationError } from "../../domain/names/errors.ts";
import type { Lease } from "./lease.ts";

/**
 * The lease of the request that is being handled, from anywhere below its handler: every middleware sets it. Outside of
 * a request that was limited, `undefined`.
 *
 * ```ts
 * await currentLease()?.adjust({ tpm: reply.tokens - 500 });
 * ```
 */
export function currentLease(): Lease | undefined {
  return storage?.getStore();
}

/** Runs the function so that `currentLease()` answers the lease in it, and in everything that it starts. */
export function withCurrentLease<Value>(lease: Lease, body: () => Value): Value {
  if (typeof body !== "function")
    throw new ValidationError("body_missing", "withCurrentLease needs a function to run.");
  storage ??= newStorage();
  // A runtime without it: the request still has its lease through its framework.
  return storage === undefined ? body() : storage.run(lease, body);
}

/** From here on, in what runs now and in everything that it starts, `currentLease()` answers the lease. */
export function enterLease(lease: Lease): void {
  storage ??= newStorage();
  storage?.enterWith?.(lease);
}

interface LeaseStorage {
  getStore(): Lease | undefined;
  /** Workers have none. */
  enterWith?(lease: Lease): void;
  run<Value>(lease: Lease, body: () => Value): Value;
}

/** Made when a lease is first set: a program that sets none does not load Node's module. */
let storage: LeaseStorage | undefined;

/** The globals that Node, Deno, Bun and workers offer. */
interface Runtime {
  readonly process?: { getBuiltinModule?(name: string): unknown };
  readonly AsyncLocalStorage?: new () => LeaseStorage;
}

function newStorage(): LeaseStorage | undefined {
  // Not an import: bundles for browsers, and runtimes without the module, would fail on its name.
  const { process, AsyncLocalStorage } = globalThis as unknown as Runtime;
  const found = process?.getBuiltinModule?.("node:async_hooks") as Runtime | undefined;
  const Storage = found?.AsyncLocalStorage ?? AsyncLocalStorage;
  return Storage && new Storage();
}
