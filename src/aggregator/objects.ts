/** Where the archive lies: a place for objects by key, below a prefix of its own. */
export interface ObjectStore {
  /** `s3://BUCKET` or `s3://BUCKET/PREFIX`. */
  readonly location: string;
  /** Whole or not at all. Rejects with a `LimiterError` of code `archive_unavailable`. */
  put(object: { readonly key: string; readonly body: Uint8Array }): Promise<void>;
  get(key: string): Promise<Uint8Array>;
  /** All keys below a folder, in order. */
  keys(folder: string): AsyncIterable<string>;
  /** The folders right below a folder, each with a slash at its end, in order. */
  folders(folder: string): Promise<readonly string[]>;
  close(): void;
}
