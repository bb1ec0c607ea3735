import { readFileSync, writeFileSync } from "node:fs";
import { llmsText, parseIndex } from "./docs-index.ts";

// `node scripts/llms.ts`: writes docs/llms.txt anew from the index, docs/README.md.

const index = readFileSync(new URL("../docs/README.md", import.meta.url), "utf8");
writeFileSync(new URL("../docs/llms.txt", import.meta.url), llmsText(parseIndex(index)));
