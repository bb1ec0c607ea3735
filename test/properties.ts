import fc from "fast-check";
import { firstSeed } from "./depth.ts";

// Properties draw like worlds do: the same cases in each `npm test`, those of the day in `npm run test:deep`.
fc.configureGlobal({ seed: firstSeed() });

export { default as fc } from "fast-check";
