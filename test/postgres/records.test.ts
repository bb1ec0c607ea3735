import { after } from "node:test";
import pg from "pg";
import { describeRecords } from "../records/without-takes.ts";
import { describePostgres } from "./postgres.ts";
import { emptied, recordsOn } from "./record-kit.ts";

await describePostgres("on PostgreSQL", ({ url, newSchema }) => {
  const pool = new pg.Pool({ connectionString: url, max: 8 });
  after(() => pool.end());
  const schema = newSchema();
  const made = recordsOn(pool, schema);
  describeRecords("records on PostgreSQL", async () => ({
    records: await made,
    close: () => emptied(pool, schema),
  }));
});
