import { randomBytes } from "node:crypto";
import { after } from "node:test";
import * as ioredis from "ioredis";
import { addressOf } from "../../src/adapters/redis/address.ts";
import { Connection } from "../../src/adapters/redis/connection.ts";
import { wireOfIoredis } from "../../src/adapters/redis/wires.ts";

/** A prefix that no other store on the server has. */
export function newPrefix(): string {
  return `t${randomBytes(6).toString("hex")}`;
}

/** A connection of the store by ioredis, closed with the tests of the file. What hangs is ended by the test runner. */
export function connectionTo(url: string, prefix: string, timeoutMs = 30_000): Connection {
  const wire = wireOfIoredis(ioredis, addressOf(url), { timeoutMs, random: () => 0 });
  const connection = new Connection({ name: "redis://test", prefix, wire, adminTimeoutMs: timeoutMs });
  after(() => connection.close());
  return connection;
}
