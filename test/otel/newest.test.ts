import { otelCases } from "./cases.ts";

await otelCases("those installed");
