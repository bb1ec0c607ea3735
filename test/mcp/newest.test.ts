import { mcpCases } from "./cases.ts";

mcpCases("the installed one");
