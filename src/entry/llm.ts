export { usd, usdText } from "../domain/limits/money.ts";
export { estimateTokens } from "../llm/estimate-tokens.ts";
export { TOKEN_KINDS, type TokenKind, type TokenUsage } from "../llm/kinds.ts";
export {
  type EstimatedCall,
  type EstimateStats,
  type LearnedEstimate,
  type LearnedEstimateOptions,
  learnedEstimate,
  type SettledCall,
} from "../llm/learned-estimate.ts";
export { type LimitToolOptions, limitTool } from "../llm/limit-tool.ts";
export type { LiteLLMMap } from "../llm/litellm-prices.ts";
export { type KindWeights, type MeasureWeights, type Meter, meter, type Weights } from "../llm/meter.ts";
export type { ModelPrice } from "../llm/model-price.ts";
export {
  type LiteLLMOptions,
  type PriceList,
  type PriceListMaker,
  type PriceListOptions,
  priceList,
} from "../llm/prices.ts";
