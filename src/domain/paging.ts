/** Where to go on and how far; `cursor` is what the page before answered. */
export interface PageRequest {
  readonly limit: number;
  readonly cursor?: string;
  /** Whoever asks walks on by the cursor: the page may be shorter than asked for. */
  readonly mayBeShort?: true;
}

export interface Page<Item> {
  readonly items: readonly Item[];
  /** Absent on the last page. */
  readonly cursor?: string;
}
