import { after } from "node:test";
import { PGlite } from "@electric-sql/pglite";
import pg from "pg";
import type { PostgresClient } from "../../src/adapters/postgres/connection.ts";
import { openPostgres } from "../../src/entry/postgres.ts";
import type { Store } from "../../src/ports/store.ts";
import { atDepth, isDeep } from "../depth.ts";
import { describeSuite } from "../kit/contract.ts";
import { suiteOn } from "../kit/contract-kit.ts";
import { describePostgres, newSchema } from "../postgres/postgres.ts";
import { emptied } from "../postgres/record-kit.ts";

/** Stories go by their own readings. */
const clock = { now: () => Date.UTC(2026, 2, 15, 12) };

/** Takes sweep nothing away from this store; what many of them do that few do not is told on stores that are quicker. */
const FEW_REPEATS = 40;

function contractOn(name: string, client: PostgresClient, coalesce: boolean): void {
  const schema = newSchema();
  const opened = async () => {
    const open = () => openPostgres({ client, schema, coalesce, clock, adminTimeoutMs: 60_000 });
    const stores: Store[] = [await open()];
    return {
      store: stores[0] as Store,
      another: async () => {
        const other = await open();
        stores.push(other);
        return other;
      },
      close: async () => {
        for (const store of stores) await store.close();
        await emptied(client, schema);
      },
    };
  };
  describeSuite(name, suiteOn(opened, ["pastHours"], atDepth(FEW_REPEATS, undefined)));
}

await describePostgres("on a server", ({ url }) => {
  const pool = new pg.Pool({ connectionString: url, max: 4 });
  after(() => pool.end());
  for (const coalesce of atDepth([true], [true, false])) {
    contractOn(coalesce ? "postgres" : "postgres, call by call", pool, coalesce);
  }
});

if (isDeep) {
  const pglite = new PGlite();
  after(() => pglite.close());
  contractOn("postgres in this process (PGlite)", pglite as PostgresClient, true);
}
