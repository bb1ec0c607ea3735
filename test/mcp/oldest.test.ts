import { useOldest } from "../oldest-peers.ts";

useOldest("@modelcontextprotocol/sdk", "zod");
const { mcpCases } = await import("./cases.ts");
mcpCases("1.13.0");
