import type { Redis } from "ioredis";
import { RateLimiterRedis } from "rate-limiter-flexible";
import { type Call, KEYS } from "./chains.ts";

/** One script that counts one key up, called as the store calls its own. */
export async function scriptBy(client: Redis): Promise<Call> {
  const sha = String(await client.script("LOAD", "return redis.call('INCR', KEYS[1])"));
  return () => client.evalsha(sha, 1, "bare");
}

/** Two limits are two limiters, as its documentation says. */
export function flexibleOn(client: Redis): Call {
  const limiterOf = (keyPrefix: string) =>
    new RateLimiterRedis({ storeClient: client, points: 1_000_000_000, duration: 3_600, keyPrefix });
  const [requests, tokens] = [limiterOf("rpm"), limiterOf("tpm")];
  return async (i) => {
    await requests.consume(`key-${i % KEYS}`, 1);
    return tokens.consume(`key-${i % KEYS}`, 500);
  };
}
