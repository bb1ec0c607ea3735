import { test } from "node:test";
import pg from "pg";
import { migrate } from "../../src/adapters/postgres/migrations.ts";
import { judgedWorlds } from "../straight/judged-worlds.ts";
import { judgedWorld } from "./judged-world.ts";
import { describePostgres } from "./postgres.ts";
import { connectionOn } from "./record-kit.ts";

await describePostgres("worlds of the simulation on PostgreSQL", ({ url, newSchema }) => {
  test("what the server stores is what the model says, write by write, in worlds of every kind", async () => {
    const client = new pg.Pool({ connectionString: url, max: 1 });
    const schema = newSchema();
    await migrate(connectionOn(client, schema));
    await judgedWorlds(() => judgedWorld(client, schema));
    await client.end();
  });
});
