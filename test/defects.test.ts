import { describe } from "node:test";
import { everyDefect } from "./defects/every.ts";
import { memoryKit } from "./defects/kit-memory.ts";
import { localDefects } from "./defects/local.ts";

describe("no defect of the original shows in memory", () => {
  const kit = memoryKit();
  everyDefect(kit);
  localDefects(kit);
});
