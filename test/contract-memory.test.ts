import { openMemory } from "../src/adapters/memory/store.ts";
import { describeStore } from "../src/testing/contract.ts";

describeStore("memory", () => {
  const store = openMemory();
  return { store, close: () => store.close() };
});
