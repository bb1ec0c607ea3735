export {
  LimiterStore,
  type LimiterStoreInfo,
  type LimiterStoreOptions,
} from "../middleware/express-rate-limit-store.ts";
