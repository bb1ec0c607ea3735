import { everyDefect } from "../defects/every.ts";
import { dynamoKit } from "../defects/kit-dynamodb.ts";
import { describeDynamo } from "./dynamodb-local.ts";

await describeDynamo("no defect of the original shows on DynamoDB", (dynamodb) => everyDefect(dynamoKit(dynamodb)));
