import { writeFileSync } from "node:fs";
import { iamReference } from "./reference/iam.ts";

// `node scripts/iam-reference.ts`: writes docs/reference/iam.md anew from the policies of the stack.

writeFileSync(new URL("../docs/reference/iam.md", import.meta.url), iamReference());
