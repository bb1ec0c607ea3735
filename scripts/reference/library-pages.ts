/** A part of a page. Methods of the limiter are named `limiter.acquire`. */
export interface Group {
  readonly title: string;
  readonly text?: string;
  readonly names: readonly string[];
}

/** The page of one entry point. */
export interface Page {
  /** The file of src/entry. */
  readonly entry: string;
  readonly text: string;
  readonly groups: readonly Group[];
}

const limiter = (...names: string[]) => names.map((name) => `limiter.${name}`);

/** What each page has, and in which order. Every export of an entry point stands in one of its groups. */
export const PAGES: readonly Page[] = [
  {
    entry: "index",
    text: "The limiter, the limits and everything that they take and answer.",
    groups: [
      {
        title: "Open and close",
        names: [
          ...[
            "RateLimiter",
            "limiter.open",
            "OpenOptions",
            "UnknownEntities",
            "UnnamedLimits",
            "OnUnavailable",
            "OutageShareOption",
            "Store",
          ],
          ...["limiter.close", "CloseOptions", "limiter.[Symbol.asyncDispose]", "limiter.isAvailable"],
          ...["limiter.cacheStats", "CacheStats", "limiter.invalidateCache"],
        ],
      },
      {
        title: "Limits",
        text: "A limit is a plain value. The makers check it. [The text form of limits](limits.md) is for files and commands.",
        names: [
          ...["Limit", "RateOptions", "QuotaOptions", "ConcurrentOptions", "CustomTerms", "KindOptions"],
          ...["Reset", "ResetName", "ScheduleEntry", "LimitKind"],
        ],
      },
      {
        title: "Take tokens",
        names: [
          ...limiter("withLease", "acquire", "tryAcquire", "tryAcquireSync"),
          ...["AcquireRequest", "Also", "AlsoPart", "Tokens", "Outcome", "Granted", "Refusal", "Status", "Acquiring"],
        ],
      },
      {
        title: "Leases",
        names: [
          "Lease",
          "LeasePlace",
          "SettleOptions",
          "TrackOptions",
          "LeaseResource",
          "LeaseStatus",
          "currentLease",
          "withCurrentLease",
        ],
      },
      {
        title: "Charge and give back without a lease",
        names: [...limiter("charge", "giveBack"), "CorrectionRequest", "CorrectionResult"],
      },
      { title: "Header fields", names: ["rateLimitHeaders", "RateLimitHeaderOptions"] },
      {
        title: "Ask without taking",
        names: [
          ...["limiter.available", "Availability", "limiter.timeUntilAvailable", "Question", "RequestQuestion"],
          ...["limiter.explain", "Explanation", "LevelExplanation", "LimitExplanation"],
          ...["PastQuestion", "PastExplanation", "PastLevel", "PastLimit"],
          ...["limiter.listBuckets", "BucketQuery", "BucketListing", "limiter.resourceCapacity", "ResourceCapacity"],
        ],
      },
      {
        title: "Stored limits",
        text:
          "Limits are looked up from the most special level to the most general one: the entity on the resource, the entity, its plan " +
          "on the resource, its plan, the resource, the system.",
        names: [
          ...limiter("setLimits", "getLimits", "deleteLimits", "listLimits", "listEntitiesWithLimits"),
          ...limiter(
            "listResourcesWithEntityLimits",
            "setResourceDefaults",
            "getResourceDefaults",
            "deleteResourceDefaults",
          ),
          ...limiter(
            "listResources",
            "setSystemDefaults",
            "getSystemDefaults",
            "deleteSystemDefaults",
            "resolveLimits",
          ),
          ...["SetOptions", "EntityScope", "SystemSettings", "LevelOptions", "AppliesTo", "StoredSet", "LimitSource"],
        ],
      },
      {
        title: "Totals",
        text: "A total limits what one entity uses on all resources together.",
        names: [
          ...limiter("setTotals", "getTotals", "deleteTotals", "setPlanTotals", "getPlanTotals", "deletePlanTotals"),
          ...limiter("setSystemTotals", "getSystemTotals", "deleteSystemTotals"),
        ],
      },
      {
        title: "Plans",
        text: "A plan is a named set of limits. An entity refers to one by its `planId`.",
        names: [
          ...limiter("createPlan", "ensurePlan", "getPlan", "updatePlan", "deletePlan", "listPlans"),
          ...limiter("setPlanLimits", "getPlanLimits", "deletePlanLimits"),
          ...["NewPlan", "PlanPatch", "Plan"],
        ],
      },
      {
        title: "Entities",
        names: [
          ...limiter(
            "createEntity",
            "ensureEntity",
            "getEntity",
            "updateEntity",
            "deleteEntity",
            "listEntities",
            "getChildren",
          ),
          ...["NewEntity", "EntityPatch", "Entity", "entityIdOf", "textOfEntityId", "resourceOf", "textOfResource"],
        ],
      },
      {
        title: "Access and cascading",
        names: [...limiter("setAccess", "setCascade", "getPolicy"), "PolicyScope", "Access", "Policy"],
      },
      {
        title: "Top-ups and resets",
        names: [...limiter("topUp", "resetBucket"), "TopUpRequest", "ResetRequest", "OperationResult"],
      },
      {
        title: "Namespaces",
        text: "A namespace is a tenant: entities, limits, buckets and usage of one namespace are invisible in all others.",
        names: [
          ...limiter("namespace", "registerNamespace", "getNamespace", "listNamespaces", "deleteNamespace"),
          ...limiter("recoverNamespace", "listOrphanNamespaces", "purgeNamespace"),
          ...limiter("freezeNamespace", "unfreezeNamespace"),
          ...["FreezeOptions", "Frozen", "PurgeOptions", "Namespace", "NamespaceShown"],
        ],
      },
      {
        title: "Usage and refusals",
        names: [
          ...limiter("usage", "usageSummary", "usageTotals", "exportUsage"),
          ...[
            "UsageRequest",
            "WithTotals",
            "UsageWindow",
            "UsageFormat",
            "UsageSnapshot",
            "UsageSummary",
            "UsageUnderTotals",
            "UsageTotal",
          ],
          ...limiter("refusals", "refusalTotals"),
          ...["RefusalRequest", "RefusalCount", "RefusalTotalsRequest", "RefusalTotal"],
          ...limiter("refusalLog"),
          ...["RefusalLogRequest", "LoggedRefusal"],
          ...limiter("overview"),
          ...["Overview", "OverviewHour", "OverviewRefusals", "NearestLimit", "SlotsInUse", "ReachedThreshold"],
          ...["OverviewShadow", "OverviewDegraded"],
        ],
      },
      {
        title: "Lists and the audit trail",
        names: [
          ...[
            "Listing",
            "ListOptions",
            "ListPage",
            "limiter.auditEvents",
            "AuditEvent",
            "AuditAction",
            "ChangeOptions",
          ],
        ],
      },
      {
        title: "Events",
        text:
          "A limiter publishes what it does on channels of `node:diagnostics_channel`. Nothing is computed for a channel without " +
          "subscribers.",
        names: [
          ...["CHANNELS", "AcquiredEvent", "AskedBesides", "RefusedEvent", "GaveBackEvent", "ChargedEvent"],
          "ThresholdEvent",
          ...[
            "UnavailableEvent",
            "DegradedEvent",
            "DegradedKind",
            "LimitsChangedEvent",
            "AcquireEndedEvent",
            "DisabledEvent",
          ],
          ...["WaitBeganEvent", "WaitEndedEvent", "LeaseOpenedEvent", "LeaseEndedEvent", "ConsumedCapacityEvent"],
        ],
      },
      {
        title: "Errors",
        text: "[Errors](errors.md) explains every code and its remedy.",
        names: [
          ...["LimiterError", "ProblemOptions", "RateLimitExceeded", "RateLimiterUnavailable", "ResourceDisabled"],
          ...[
            "ValidationError",
            "NotFoundError",
            "ExistsError",
            "ConflictError",
            "HoldLost",
            "LeaseClosed",
            "VersionError",
            "ItemUnreadable",
          ],
        ],
      },
    ],
  },
  {
    entry: "memory",
    text: "The limiter with the memory store alone, for small bundles. It has no file and no network in it.",
    groups: [{ title: "Open", names: ["RateLimiter", "MemoryOptions", "openMemory"] }],
  },
  {
    entry: "sqlite",
    text: 'The SQLite store as an object. `RateLimiter.open({ store: "sqlite:FILE" })` opens one by itself.',
    groups: [{ title: "Open", names: ["openSqlite", "SqliteStoreOptions", "RetentionOptions"] }],
  },
  {
    entry: "postgres",
    text: 'The PostgreSQL store as an object. `RateLimiter.open({ store: "postgres://..." })` opens one by itself.',
    groups: [{ title: "Open", names: ["openPostgres", "PostgresStoreOptions", "PostgresClient"] }],
  },
  {
    entry: "redis",
    text: 'The Redis store as an object, on any client. `RateLimiter.open({ store: "redis://..." })` opens one by itself.',
    groups: [{ title: "Open", names: ["openRedis", "RedisStoreOptions", "SendCommand"] }],
  },
  {
    entry: "dynamodb",
    text: 'The DynamoDB store as an object, and its table. `RateLimiter.open({ store: "dynamodb:STACK" })` opens one by itself.',
    groups: [
      {
        title: "Open",
        names: ["openDynamo", "DynamoStoreOptions", "DynamoStore", "Credentials", "CredentialsProvider"],
      },
      {
        title: "Tables",
        names: [
          ...["createTable", "CreateTableOptions", "prepareTable", "deleteTable", "DynamoTable"],
          ...["inspectTable", "TableInspection", "listTables"],
        ],
      },
    ],
  },
  {
    entry: "aggregator",
    text: "The background work of a DynamoDB table: closing hours of usage, archiving the audit trail, tidying up.",
    groups: [
      {
        title: "In Lambda",
        names: [
          ...["createHandler", "handler", "AggregatorOptions", "LogLevel", "SnapshotWindow"],
          ...[
            "AggregatorHandler",
            "AggregatorEvent",
            "AggregatorContext",
            "AggregatorAnswer",
            "BatchAnswer",
            "StreamRecord",
          ],
        ],
      },
      {
        title: "In a process of your own",
        names: [
          "follow",
          "FollowOptions",
          "Follower",
          "FollowReport",
          "MetricName",
          "sweep",
          "SweepOptions",
          "SweepReport",
        ],
      },
      {
        title: "The archive",
        names: [
          ...[
            "readArchive",
            "ReadArchiveOptions",
            "ArchivePlace",
            "ArchivedEvent",
            "verifyArchive",
            "VerifyArchiveOptions",
          ],
          ...["VerifiedDay", "planArchive", "ArchivePlan", "ArchiveObject", "ArchiveLine"],
        ],
      },
    ],
  },
  {
    entry: "manifest",
    text: "Declared limits: a YAML file says what the limits, policies, plans and entities of a namespace are.",
    groups: [
      {
        title: "Read",
        names: [
          "parseManifest",
          "ParseOptions",
          "Manifest",
          "ManifestInvalid",
          "ManifestProblem",
          "ProblemCode",
          "manifestSchema",
        ],
      },
      {
        title: "Plan and apply",
        names: ["planManifest", "PlanOptions", "Plan", "Change", "applyManifest", "ApplyOptions"],
      },
      { title: "Saved plans", names: ["savePlan", "openPlan", "SavedPlanOptions"] },
      {
        title: "Drift and export",
        names: ["driftOf", "DriftOptions", "Drift", "DriftedPiece", "exportManifest", "ExportOptions"],
      },
      { title: "Pieces", names: ["Piece", "DeclaredPiece", "PieceValue", "LimitsValue", "EntityValue", "PlanValue"] },
    ],
  },
  {
    entry: "copy",
    text: "Namespaces from one store to another: everything but open leases, compared at the end.",
    groups: [
      {
        title: "Copy",
        names: [
          ...["copyStore", "CopyOptions", "CopyProgress", "CopyReport", "CopiedNamespace", "Copied"],
          "Difference",
        ],
      },
    ],
  },
  {
    entry: "infra",
    text: "The stack on AWS without the command line: its template, its policies, the code of its functions.",
    groups: [
      { title: "The template", names: ["template", "StackOptions", "Template", "Resources", "Resource", "Json"] },
      {
        title: "Policies",
        text: "[Rights on AWS](iam.md) has what each policy allows.",
        names: ["policyDocument", "PolicyName", "PolicyPlace", "PolicyDocument", "Statement"],
      },
      { title: "Functions", names: ["lambdaCode", "LambdaName", "LambdaZip"] },
      { title: "Texts of a template", names: ["Text", "Reference", "Substitution", "Attribute"] },
    ],
  },
  {
    entry: "cdk",
    text: "The stack as a construct of the AWS CDK. It needs `aws-cdk-lib` and `constructs`.",
    groups: [
      {
        title: "The construct",
        names: ["RateLimiter", "RateLimiterProps", "GrantOptions", "LimitsOptions", "OwnTable", "OwnKey"],
      },
    ],
  },
  {
    entry: "server",
    text: "The HTTP service in a process of your own. [HTTP](http.md) has its routes.",
    groups: [
      {
        title: "The service",
        names: [
          "createService",
          "ServiceOptions",
          "ServiceBehaviour",
          "TokenEntry",
          "Scope",
          "Service",
          "ListenOptions",
          "ListeningService",
        ],
      },
    ],
  },
  {
    entry: "express-rate-limit-store",
    text: "A store for express-rate-limit 7 and 8. [Its guide](../guide/express-rate-limit.md) has an example.",
    groups: [{ title: "The store", names: ["LimiterStore", "LimiterStoreOptions", "LimiterStoreInfo"] }],
  },
  {
    entry: "express",
    text: "Middleware for Express 4 and 5. [The guide](../guide/express.md) shows it.",
    groups: [
      { title: "The middleware", names: ["rateLimit", "ExpressRateLimitOptions"] },
      {
        title: "Options of all frameworks",
        names: ["RateLimitOptions", "RequestOutcome", "RefusedRequest", "ClosedRequest"],
      },
    ],
  },
  {
    entry: "fastify",
    text: "A plugin for Fastify 5. [The guide](../guide/fastify.md) shows it.",
    groups: [{ title: "The plugin", names: ["rateLimit", "FastifyRateLimitOptions", "FastifyRouteRateLimitOptions"] }],
  },
  {
    entry: "hono",
    text: "Middleware for Hono 4, on every runtime. [The guide](../guide/hono.md) shows it.",
    groups: [{ title: "The middleware", names: ["rateLimit", "HonoRateLimitOptions", "HonoRateLimitEnv"] }],
  },
  {
    entry: "fetch",
    text: "Middleware for functions that make a `Response` of a `Request`. [The guide](../guide/fetch.md) shows it.",
    groups: [{ title: "The middleware", names: ["rateLimit", "FetchRateLimitOptions"] }],
  },
  {
    entry: "lambda",
    text: "Middleware for Lambda functions behind API Gateway or a function URL. [The guide](../guide/lambda.md) shows it.",
    groups: [
      {
        title: "The middleware",
        names: [
          ...["rateLimit", "LambdaRateLimitOptions", "LambdaHttpEvent", "LambdaContext", "LambdaResult"],
          "ResponseStream",
        ],
      },
      { title: "Middy", names: ["rateLimitMiddy", "RateLimitMiddleware", "MiddyRequest"] },
    ],
  },
  {
    entry: "llm",
    text: "Budgets for calls of language models: what a call costs by kind of token, prices, money, estimates, tools. [The guide](../guide/llm-budgets.md) shows them together.",
    groups: [
      {
        title: "What a call costs",
        names: [
          ...["meter", "Meter", "Weights", "MeasureWeights", "KindWeights"],
          ...["TOKEN_KINDS", "TokenKind", "TokenUsage"],
        ],
      },
      {
        title: "Prices",
        names: [
          ...["priceList", "PriceListMaker", "PriceListOptions", "ModelPrice", "PriceList"],
          ...["LiteLLMOptions", "LiteLLMMap"],
        ],
      },
      { title: "Money", names: ["usd", "usdText"] },
      {
        title: "Estimates",
        names: [
          ...["estimateTokens", "learnedEstimate", "LearnedEstimateOptions", "LearnedEstimate", "EstimateStats"],
          ...["EstimatedCall", "SettledCall"],
        ],
      },
      { title: "Tools", names: ["limitTool", "LimitToolOptions"] },
    ],
  },
  {
    entry: "otel",
    text: "OpenTelemetry metrics and spans of every limiter of a process. [A guide](../guide/opentelemetry.md) shows how to use it.",
    groups: [{ title: "Instruments", names: ["instrument", "InstrumentOptions", "Instrumentation"] }],
  },
  {
    entry: "mcp",
    text: "Limits for the tools of an MCP server, and for any other function. [A guide](../guide/mcp.md) shows how to use it.",
    groups: [{ title: "An MCP server", names: ["limitTools", "LimitToolsOptions", "ToolCall", "ToolExtra"] }],
  },
  {
    entry: "client",
    text: "The limiter of a running service, over HTTP. Its methods are those of [the limiter](library.md), as far as the service has a route; [the guide](../guide/client.md) says what is different.",
    groups: [{ title: "The client", names: ["LimiterClient", "ClientOptions", "ClientRequest"] }],
  },
  {
    entry: "errors",
    text: "The classes of errors alone, as the root exports them.",
    groups: [],
  },
  {
    entry: "openai",
    text: "Limits the calls of an `openai` client, version 6 or 7. [Its guide](../guide/openai.md) has examples.",
    groups: [{ title: "The adapter", names: ["limitOpenAI", "refusalOf", "LimitModelOptions", "ModelCallInfo"] }],
  },
  {
    entry: "anthropic",
    text: "Limits the calls of an `@anthropic-ai/sdk` client, version 1. Its options and `refusalOf` are those of [`openai`](library-openai.md). [Its guide](../guide/anthropic.md) has examples.",
    groups: [{ title: "The adapter", names: ["limitAnthropic"] }],
  },
  {
    entry: "ai",
    text: "Limits language models of the AI SDK, version 6 or 7. Its options are those of [`openai`](library-openai.md). [Its guide](../guide/ai-sdk.md) has examples.",
    groups: [
      {
        title: "The adapter",
        names: ["rateLimitMiddleware", "RateLimitMiddleware"],
      },
    ],
  },
  {
    entry: "nest",
    text: "A module, a guard and decorators for Nest 10 to 12. [The guide](../guide/nest.md) shows them.",
    groups: [
      { title: "The module and the guard", names: ["RateLimitModule", "NestModuleOptions", "RateLimitGuard"] },
      {
        title: "Decorators",
        names: ["RateLimit", "NestRateLimitOptions", "NestRequest", "SkipRateLimit", "CurrentLease"],
      },
    ],
  },
  {
    entry: "testing",
    text: "What the package's own tests use: a clock that stands still, chance by a seed, faults, the contract of a store, an exact model.",
    groups: [
      { title: "Clocks and chance", names: ["SimulatedClock", "SkewedClock", "SeededRandom"] },
      { title: "Faults", names: ["FaultStore", "FaultOptions", "FaultedCall", "Fault"] },
      { title: "The contract of a store", names: ["describeStore", "OpenStore", "Gap"] },
      {
        title: "A table with conditional writes",
        text: "The protocol of the DynamoDB store over a table in memory, for simulations. Its types follow the protocol and may change with it.",
        names: [
          ...["conditionalWorld", "ConditionalWorld", "openConditional", "ConditionalProcess", "ConditionalStore"],
          ...["ConditionalTable", "TableOptions", "TableCounts", "AppliedChange"],
          ...["ConditionalLine", "LineOptions", "LineCall", "LineFault"],
        ],
      },
      {
        title: "The model",
        text: "The slow, exact limiter that simulations compare a store with.",
        names: ["ModelBucket", "ModelLimit", "WriteKind"],
      },
    ],
  },
];
