import { addressOf, nameOf } from "../adapters/redis/address.ts";
import { Connection } from "../adapters/redis/connection.ts";
import { wireOfIoredis } from "../adapters/redis/wires.ts";
import { jitter } from "../adapters/system/random.ts";
import { LimiterError } from "../domain/names/errors.ts";

/** A connection of this package, by an address. */
export async function connectionTo(url: string, timeoutMs: number): Promise<Connection> {
  const address = addressOf(url);
  const wire = wireOfIoredis(await library(), address, { timeoutMs, random: jitter });
  return new Connection({ name: nameOf(address), prefix: address.prefix, wire, adminTimeoutMs: timeoutMs });
}

async function library() {
  try {
    return await import("ioredis");
  } catch (cause) {
    throw new LimiterError("package_missing", "The store redis:// needs the package ioredis: npm install ioredis", {
      cause,
    });
  }
}
