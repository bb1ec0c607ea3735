import { writeFileSync } from "node:fs";
import { edgeSchema } from "../src/edge/schema.ts";
import { takesNoArguments } from "./script.ts";

takesNoArguments("node scripts/edge-schema.ts      writes edge.schema.json, which the package exports for editors\n");

writeFileSync(new URL("../edge.schema.json", import.meta.url), `${JSON.stringify(edgeSchema(), undefined, 2)}\n`);
