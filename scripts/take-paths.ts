import { writeFileSync } from "node:fs";
import { fetchedDynamodbLocal } from "../test/dynamodb/dynamodb-local-download.ts";
import { startDynamodbLocal } from "../test/dynamodb/dynamodb-local-process.ts";
import { PATHS, type TracedStore, takePathsPage, tracedPath } from "./reference/take-paths.ts";
import { takesNoArguments } from "./script.ts";

takesNoArguments("node scripts/take-paths.ts   writes docs/reference/take-paths.md anew from takes that are traced\n");

const endpoint = await startDynamodbLocal(await fetchedDynamodbLocal());
const paths = new Map<TracedStore, readonly string[]>();
for (const store of Object.keys(PATHS) as TracedStore[]) paths.set(store, await tracedPath(store, endpoint));
writeFileSync(new URL("../docs/reference/take-paths.md", import.meta.url), takePathsPage(paths));
process.exit();
