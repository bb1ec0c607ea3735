import { openMemory } from "../../src/entry/memory.ts";
import { Kit } from "./kit.ts";

/** Each test on a store of its own. */
export function memoryKit(): Kit {
  const newGround = async () => {
    const store = openMemory();
    return { namespace: "default", options: {}, store: async () => store };
  };
  return new Kit(newGround, { tells: true, isWhole: true, many: 2_000 });
}
