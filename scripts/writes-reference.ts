import { writeFileSync } from "node:fs";
import { takesNoArguments } from "./script.ts";

takesNoArguments(
  "node scripts/writes-reference.ts   writes docs/reference/writes.md anew from the writes that limiters make\n",
);

// Loaded only now: what it needs takes a moment.
const { writesReference } = await import("./reference/writes.ts");
writeFileSync(new URL("../docs/reference/writes.md", import.meta.url), await writesReference());
