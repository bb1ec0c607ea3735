import { everyDefect } from "../defects/every.ts";
import { dynamoKit } from "../defects/kit-dynamodb.ts";
import { describeDynamo } from "./engine.ts";

await describeDynamo("no defect of the original shows on DynamoDB", (engine) => everyDefect(dynamoKit(engine)));
