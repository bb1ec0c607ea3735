import { fetchedDynamodbLocal as fetched } from "../../src/local/engine-tools.ts";

/** The folder with DynamoDB Local and all it needs; fetched the first time, kept outside of the repository. */
export function fetchedDynamodbLocal(): Promise<string> {
  return fetched(() => {
    process.stderr.write("Fetching DynamoDB Local for the tests (48 MB, once; a minute or two) ...\n");
  });
}
