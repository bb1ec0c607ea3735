import { writeFileSync } from "node:fs";
import { libraryReference } from "./reference/library.ts";

// `node scripts/library-reference.ts`: writes docs/reference/library*.md anew from the doc comments of src.

for (const [path, text] of libraryReference()) {
  writeFileSync(new URL(`../docs/reference/${path}`, import.meta.url), text);
}
