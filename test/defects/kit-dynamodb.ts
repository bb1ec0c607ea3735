import type { Clock } from "../../src/ports/system.ts";
import type { Engine } from "../dynamodb/engine.ts";
import { OneTable, TIMEOUT_MS } from "../dynamodb/one-table.ts";
import { Kit } from "./kit.ts";

/** Each test in a namespace of its own, every process with a connection of its own. */
export function dynamoKit(engine: Engine): Kit {
  const table = new OneTable(engine);
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
