import { describe } from "node:test";
import { everyDefect } from "../defects/every.ts";
import { sqliteKit } from "../defects/kit-sqlite.ts";
import { localDefects } from "../defects/local.ts";

describe("no defect of the original shows on SQLite", () => {
  const kit = sqliteKit();
  everyDefect(kit);
  localDefects(kit);
});
