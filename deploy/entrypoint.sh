#!/bin/sh
# Spark on Kubernetes starts an executor as `IMAGE executor` and describes it in the environment. Any other command is
# run as it is.
set -eu
if [ "${1:-}" != executor ]; then
    exec "$@"
fi
spark=$(python -c 'import pyspark; print(pyspark.__path__[0])')
# one option a variable, in the order of their numbers; a space inside an option is kept
set --
for number in $(env | sed -n 's/^SPARK_JAVA_OPT_\([0-9]*\)=.*/\1/p' | sort -n); do
    set -- "$@" "$(printenv "SPARK_JAVA_OPT_$number")"
done
exec "$JAVA_HOME/bin/java" "$@" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
    -cp "${SPARK_CONF_DIR:-/opt/spark/conf}:${SPARK_CLASSPATH:-}:$spark/jars/*" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
