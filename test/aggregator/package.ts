export * from "../../src/entry/aggregator.ts";
export { createTable, deleteTable, prepareTable } from "../../src/entry/dynamodb.ts";
export { RateLimiter } from "../../src/entry/rate-limiter.ts";
