import { writeFileSync } from "node:fs";
import { cliReference } from "../test/cli/reference.ts";

// `node scripts/cli-reference.ts`: writes docs/reference/cli.md anew from the help of every command.

writeFileSync(new URL("../docs/reference/cli.md", import.meta.url), await cliReference());
