/** Where to go on and how far; `cursor` is what the page before answered. */
export interface PageRequest {
  readonly limit: number;
  readonly cursor?: string;
}

export interface Page<Item> {
  readonly items: readonly Item[];
  /** Absent on the last page. */
  readonly cursor?: string;
}
