import { describe } from "node:test";
import { everyDefect } from "./every.ts";
import { memoryKit } from "./kit-memory.ts";
import { localDefects } from "./local.ts";

describe("no defect of the original shows in memory", () => {
  const kit = memoryKit();
  everyDefect(kit);
  localDefects(kit);
});
