import { writeFileSync } from "node:fs";
import { httpReference } from "./reference/http.ts";

// `node scripts/http-reference.ts`: writes docs/reference/http.md anew from the schemas of the service.

writeFileSync(new URL("../docs/reference/http.md", import.meta.url), httpReference());
