import { after } from "node:test";
import { Decoder, GlideClient, GlideClusterClient, Logger } from "@valkey/valkey-glide";
import type { SendCommand } from "../../src/entry/redis.ts";

/** Refusals and lost connections are what tests are about: it prints each. */
Logger.setLoggerConfig("off");

export interface GlideTarget {
  readonly port: number;
  readonly isCluster?: boolean;
  readonly credentials?: { readonly username: string; readonly password: string };
}

/** Commands by GLIDE, on a connection that is made with the first of them and ends with the tests of the file. */
export function sendByGlide({ port, isCluster = false, credentials }: GlideTarget): SendCommand {
  const options = {
    ...{ addresses: [{ host: "127.0.0.1", port }], defaultDecoder: Decoder.Bytes, requestTimeout: 30_000 },
    ...(credentials === undefined ? {} : { credentials }),
  };
  let client: Promise<GlideClient | GlideClusterClient> | undefined;
  const open = (): Promise<GlideClient | GlideClusterClient> =>
    isCluster ? GlideClusterClient.createClient(options) : GlideClient.createClient(options);
  after(async () => (await client?.catch(() => undefined))?.close());
  return async (parts) => {
    client ??= open();
    return (await client).customCommand(parts as Buffer[]);
  };
}
