export { openMemory } from "../adapters/memory/store.ts";
