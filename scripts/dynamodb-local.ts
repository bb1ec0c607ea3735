import { fetchedDynamodbLocal } from "../test/dynamodb/dynamodb-local-download.ts";
import { startDynamodbLocal } from "../test/dynamodb/dynamodb-local-process.ts";
import { parsedArgs, runScript, UsageError } from "./script.ts";

const USAGE = `npm run dynamodb-local             the DynamoDB that the tests run on, at port 8000, until Ctrl+C; everything is in memory
npm run dynamodb-local -- PORT     at another port

It needs Java 17, and Maven the first time, to fetch DynamoDB Local (48 MB).
`;

await runScript(USAGE, async (args) => {
  const { positionals } = parsedArgs({ args: [...args], allowPositionals: true });
  const [given = "8000"] = positionals;
  const port = Number(given);
  if (!Number.isInteger(port) || port < 1 || port > 65_535) {
    throw new UsageError(`"${given}" is not a port; give a number from 1 to 65535, such as 8000.`);
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
  return 0;
});
