import { PGlite } from "@electric-sql/pglite";
import { describeRecords } from "../records/without-takes.ts";
import { newSchema } from "./postgres.ts";
import { emptied, recordsOn } from "./record-kit.ts";

const client = await PGlite.create();
const schema = newSchema();
const records = await recordsOn(client, schema);

describeRecords("records on PGlite", async () => ({ records, close: () => emptied(client, schema) }));
