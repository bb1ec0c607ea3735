import { fetchedDynamodbLocal } from "../test/dynamodb/dynamodb-local-download.ts";
import { startDynamodbLocal } from "../test/dynamodb/dynamodb-local-process.ts";

// `npm run dynamodb-local -- 8000`: the DynamoDB that the tests run on, to try things out. All in memory, until it is ended.

const [given = "8000"] = process.argv.slice(2);
const port = Number(given);
if (!Number.isInteger(port) || port < 1 || port > 65_535) {
  console.error(`"${given}" is not a port; give a number from 1 to 65535, such as 8000.`);
  process.exit(1);
}
try {
  console.log(
    `DynamoDB Local answers at ${await startDynamodbLocal(await fetchedDynamodbLocal(), port)}; Ctrl+C ends it.`,
  );
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exit(1);
}
// It ends with this process, which has nothing else to do.
setInterval(() => {}, 60_000);
