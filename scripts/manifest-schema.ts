import { writeFileSync } from "node:fs";
import { manifestSchema } from "../src/manifest/schema.ts";

// `node scripts/manifest-schema.ts`: writes manifest.schema.json, which the package exports for editors.

writeFileSync(
  new URL("../manifest.schema.json", import.meta.url),
  `${JSON.stringify(manifestSchema(), undefined, 2)}\n`,
);
