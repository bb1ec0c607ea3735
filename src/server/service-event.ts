/** What happened in a namespace. */
export interface ServiceEvent {
  readonly n: number;
  readonly type: string;
  /** With `atMs` and `namespace`. */
  readonly data: Readonly<Record<string, unknown>>;
}
