import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";

/** The file that the guide begins with. */
export const EDGE_FILE = `domains:
  envoy:
    namespace: default
    unmatched: allow
    refunds: false
    levels: own
    rules:
      - match: { tenant: "*", model: [gpt-5, gpt-5-mini] }
        entity: "{tenant}"
        resource: "{model}"
        consume: { requests: 1, tpm: hits }
        hold: 60s
        on_expiry: charge
      - { match: { remote_address: "*" }, entity: "ip-{remote_address}", resource: http }
      - { match: { tenant: "*", phase: done }, entity: "{tenant}", resource: tokens, consume: { tpm: hits }, mode: charge }
    http:
      entries: { tenant: header x-tenant, path: path, remote_address: client }
      descriptors: [[tenant, path], [remote_address]]
      hits: header x-cost
      trusted_hops: 1
`;

/** A file that is gone with its test. */
export function tempFile(t: TestContext, name: string, text: string): string {
  const folder = mkdtempSync(join(tmpdir(), "zael-edge-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, name);
  writeFileSync(file, text);
  return file;
}
