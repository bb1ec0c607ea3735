import { writeFileSync } from "node:fs";
import { manifestSchema } from "../src/manifest/schema.ts";
import { takesNoArguments } from "./script.ts";

takesNoArguments(
  "node scripts/manifest-schema.ts      writes manifest.schema.json, which the package exports for editors\n",
);

writeFileSync(
  new URL("../manifest.schema.json", import.meta.url),
  `${JSON.stringify(manifestSchema(), undefined, 2)}\n`,
);
