/** The prices of a model in US dollars a million tokens, by kind. */
export interface ModelPrice {
  /** Input that is neither read from a cache nor written to one. */
  readonly input: number;
  /** Input that is read from a cache. Default: as `input`. */
  readonly cachedInput?: number;
  /** Input that is written to a cache. Default: as `input`. */
  readonly cacheWrite?: number;
  /** Output without reasoning. */
  readonly output: number;
  /** Reasoning. Default: as `output`. */
  readonly reasoning?: number;
}
