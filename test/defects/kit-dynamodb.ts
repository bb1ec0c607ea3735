import type { Clock } from "../../src/ports/system.ts";
import type { DynamodbLocal } from "../dynamodb/dynamodb-local.ts";
import { OneTable, TIMEOUT_MS } from "../dynamodb/one-table.ts";
import { Kit } from "./kit.ts";

/** Each test in a namespace of its own, every process with a connection of its own. */
export function dynamoKit(dynamodb: DynamodbLocal): Kit {
  const table = new OneTable(dynamodb);
  const newGround = async () => {
    const { name, way } = await table.newNamespace();
    return {
      namespace: name,
      options: { timeoutMs: TIMEOUT_MS },
      store: (clock: Clock) => table.store(way, clock),
    };
  };
  return new Kit(newGround, { tells: false, isWhole: false, many: 30 });
}
