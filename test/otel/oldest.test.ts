import { useOldest } from "../oldest-peers.ts";

useOldest("@opentelemetry/api", "@opentelemetry/sdk-metrics", "@opentelemetry/sdk-trace-base");
const { otelCases } = await import("./cases.ts");
await otelCases({ api: "1.3.0", metrics: "1.30.0", traces: "1.30.0" });
