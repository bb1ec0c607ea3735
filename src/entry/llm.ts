export { usd, usdText } from "../domain/limits/money.ts";
export { estimateTokens } from "../llm/estimate-tokens.ts";
export {
  type EstimatedCall,
  type EstimateStats,
  type LearnedEstimate,
  type LearnedEstimateOptions,
  learnedEstimate,
  type SettledCall,
} from "../llm/learned-estimate.ts";
export { type LimitToolOptions, limitTool } from "../llm/limit-tool.ts";
export {
  type KindWeights,
  type MeasureWeights,
  type Meter,
  meter,
  TOKEN_KINDS,
  type TokenKind,
  type TokenUsage,
  type Weights,
} from "../llm/meter.ts";
export type { LiteLLMMap, ModelPrice } from "../llm/prices.ts";
export {
  type LiteLLMOptions,
  type PriceList,
  type PriceListMaker,
  type PriceListOptions,
  priceList,
} from "../llm/prices.ts";
