import { writeFileSync } from "node:fs";
import { cliReference } from "../test/cli/reference.ts";
import { takesNoArguments } from "./script.ts";

takesNoArguments(
  "node scripts/cli-reference.ts      writes docs/reference/cli.md anew from the help of every command\n",
);

writeFileSync(new URL("../docs/reference/cli.md", import.meta.url), await cliReference());
