// libjcw_jni.so: the natives of io.github.jcw.Native, by way of jcw.h alone. Where an exception of Java is pending, a native
// frees what it holds and returns.
#include <jni.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>
#include <new>

#include "jcw.h"

namespace {

// Text goes to Java as bytes: layers have names from files, and NewStringUTF ends a process on Android where one is no UTF-8
// of Java's own kind.
jbyteArray bytes_of(JNIEnv* env, const char* text) {
  const auto size = static_cast<jsize>(std::strlen(text));
  const jbyteArray bytes = env->NewByteArray(size);
  if (bytes) env->SetByteArrayRegion(bytes, 0, size, reinterpret_cast<const jbyte*>(text));
  return bytes;
}

void fail(JNIEnv* env, jcw_status status, const char* message) {
  const jclass type = env->FindClass("io/github/jcw/JcwException");
  if (!type) return;
  const jmethodID make = env->GetMethodID(type, "<init>", "(I[B)V");
  if (!make) return;
  const jbyteArray text = bytes_of(env, message);
  if (!text) return;
  const jobject failure = env->NewObject(type, make, static_cast<jint>(status), text);
  if (failure && !env->ExceptionCheck()) env->Throw(static_cast<jthrowable>(failure));
}

// Whether a function of jcw.h succeeded; otherwise an exception is pending.
bool succeeded(JNIEnv* env, jcw_status status) {
  if (status != JCW_OK) fail(env, status, jcw_error());
  return status == JCW_OK;
}

jcw_model* at(jlong address) { return reinterpret_cast<jcw_model*>(static_cast<std::intptr_t>(address)); }

jlong address_of(const jcw_model* model) { return static_cast<jlong>(reinterpret_cast<std::intptr_t>(model)); }

enum class Access : jint { kRead = JNI_ABORT, kWrite = 0 };  // JNI_ABORT copies nothing back

// The elements of an array. Null where there is no array, for jcw.h to refuse, and where an exception is pending.
template <class Array, class Element, Element* (JNIEnv::*get)(Array, jboolean*),
          void (JNIEnv::*release)(Array, Element*, jint)>
class Elements {
 public:
  Elements(JNIEnv* env, Array array, Access access) : env_(env), array_(array), access_(access) {
    if (array && !env->ExceptionCheck()) data_ = (env->*get)(array, nullptr);
    if (data_) size_ = static_cast<std::size_t>(env->GetArrayLength(array));
  }
  ~Elements() {
    if (data_) (env_->*release)(array_, data_, static_cast<jint>(access_));
  }
  Elements(const Elements&) = delete;
  Elements& operator=(const Elements&) = delete;

  Element* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  JNIEnv* env_;
  Array array_;
  Access access_;
  Element* data_ = nullptr;
  std::size_t size_ = 0;
};

using Bytes = Elements<jbyteArray, jbyte, &JNIEnv::GetByteArrayElements, &JNIEnv::ReleaseByteArrayElements>;
using Floats = Elements<jfloatArray, jfloat, &JNIEnv::GetFloatArrayElements, &JNIEnv::ReleaseFloatArrayElements>;

// Where `count` elements of a direct buffer lie from `position` on. Null where there are none, and where an exception is pending.
template <class Element>
Element* direct(JNIEnv* env, jobject buffer, jint position, jint count, const char* name) {
  if (env->ExceptionCheck()) return nullptr;
  const jlong capacity = buffer ? env->GetDirectBufferCapacity(buffer) : -1;
  void* first = capacity > 0 ? env->GetDirectBufferAddress(buffer) : nullptr;
  const bool aligned = reinterpret_cast<std::uintptr_t>(first) % alignof(Element) == 0;
  if (capacity >= 0 && aligned && position >= 0 && count >= 0 && position <= capacity - count)
    return first ? static_cast<Element*>(first) + position : nullptr;
  char message[128];
  std::snprintf(message, sizeof message, "%s: no direct buffer that is aligned and has %d elements from %d on", name,
                static_cast<int>(count), static_cast<int>(position));
  fail(env, JCW_BAD_ARGUMENT, message);
  return nullptr;
}

jlong load(JNIEnv* env, jclass, jbyteArray file, jint threads) {
  const Bytes bytes(env, file, Access::kRead);
  jcw_model* model = nullptr;
  if (!env->ExceptionCheck()) succeeded(env, jcw_load(bytes.data(), bytes.size(), threads, &model));
  return address_of(model);
}

jlong load_direct(JNIEnv* env, jclass, jobject file, jint position, jint count, jint threads) {
  const void* bytes = direct<jbyte>(env, file, position, count, "file");
  if (env->ExceptionCheck()) return 0;
  jcw_model* model = nullptr;
  succeeded(env, jcw_load(bytes ? bytes : "", static_cast<std::size_t>(count), threads, &model));
  return address_of(model);
}

jlong load_file(JNIEnv* env, jclass, jbyteArray path, jint threads) {
  const Bytes bytes(env, path, Access::kRead);
  if (env->ExceptionCheck()) return 0;
  jcw_model* model = nullptr;
  if (bytes.data() && !std::memchr(bytes.data(), 0, bytes.size()))
    fail(env, JCW_BAD_ARGUMENT, "path does not end in a zero byte");
  else
    succeeded(env, jcw_load_file(reinterpret_cast<const char*>(bytes.data()), threads, &model));
  return address_of(model);
}

jintArray shapes(JNIEnv* env, jclass, jlong model) {
  jcw_shape input, output;
  if (!succeeded(env, jcw_shapes(at(model), &input, &output))) return nullptr;
  const jint sizes[] = {input.channels, input.height, input.width, output.channels, output.height, output.width};
  const jintArray array = env->NewIntArray(std::size(sizes));
  if (array) env->SetIntArrayRegion(array, 0, std::size(sizes), sizes);
  return array;
}

void run(JNIEnv* env, jclass, jlong model, jfloatArray images, jfloatArray outputs) {
  const Floats from(env, images, Access::kRead), to(env, outputs, Access::kWrite);
  if (!env->ExceptionCheck()) succeeded(env, jcw_run(at(model), from.data(), from.size(), to.data(), to.size()));
}

void run_direct(JNIEnv* env, jclass, jlong model, jobject images, jint position, jint floats, jobject outputs,
                jint output_position, jint output_floats) {
  const jfloat* from = direct<jfloat>(env, images, position, floats, "images");
  jfloat* to = direct<jfloat>(env, outputs, output_position, output_floats, "outputs");
  if (env->ExceptionCheck()) return;
  succeeded(env, jcw_run(at(model), from, static_cast<std::size_t>(floats), to, static_cast<std::size_t>(output_floats)));
}

jobject step_of(JNIEnv* env, jclass type, jmethodID make, const jcw_step& step) {
  const jbyteArray layer = bytes_of(env, step.layer);
  const jbyteArray kernel = layer ? bytes_of(env, step.kernel) : nullptr;
  const jobject made =
      kernel ? env->NewObject(type, make, layer, kernel, step.density, step.macs, step.seconds) : nullptr;
  env->DeleteLocalRef(layer);  // a network has more steps than a native may have references
  env->DeleteLocalRef(kernel);
  return made;
}

jobjectArray array_of(JNIEnv* env, const jcw_step* steps, std::size_t count) {
  const jclass type = env->FindClass("io/github/jcw/Step");
  const jmethodID make = type ? env->GetMethodID(type, "<init>", "([B[BDDD)V") : nullptr;
  const jobjectArray array = make ? env->NewObjectArray(static_cast<jsize>(count), type, nullptr) : nullptr;
  for (std::size_t i = 0; array && i < count; ++i) {
    const jobject step = step_of(env, type, make, steps[i]);
    if (env->ExceptionCheck()) return nullptr;
    env->SetObjectArrayElement(array, static_cast<jsize>(i), step);
    env->DeleteLocalRef(step);
  }
  return array;
}

jobjectArray profile(JNIEnv* env, jclass, jlong model, jfloatArray image, jint rounds) {
  const Floats floats(env, image, Access::kRead);
  std::size_t count = 0;
  if (env->ExceptionCheck()) return nullptr;
  if (!succeeded(env, jcw_profile(at(model), nullptr, 0, rounds, nullptr, 0, &count))) return nullptr;
  const std::unique_ptr<jcw_step[]> steps(new (std::nothrow) jcw_step[count]);
  if (!steps) {
    fail(env, JCW_NO_MEMORY, "not enough memory");
    return nullptr;
  }
  const jcw_status status = jcw_profile(at(model), floats.data(), floats.size(), rounds, steps.get(), count, &count);
  return succeeded(env, status) ? array_of(env, steps.get(), count) : nullptr;
}

void free_model(JNIEnv*, jclass, jlong model) { jcw_free(at(model)); }

jbyteArray version(JNIEnv* env, jclass) { return bytes_of(env, jcw_version()); }

// The JDK's header has names that may be written, Android's has not.
template <class Function>
JNINativeMethod native(const char* name, const char* signature, Function* function) {
  return {const_cast<char*>(name), const_cast<char*>(signature), reinterpret_cast<void*>(function)};
}

}  // namespace

extern "C" JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM* vm, void*) {
  JNIEnv* env = nullptr;
  if (vm->GetEnv(reinterpret_cast<void**>(&env), JNI_VERSION_1_6) != JNI_OK) return JNI_ERR;
  const jclass type = env->FindClass("io/github/jcw/Native");
  if (!type) return JNI_ERR;
  const JNINativeMethod natives[] = {
      native("load", "([BI)J", load),
      native("loadDirect", "(Ljava/nio/ByteBuffer;III)J", load_direct),
      native("loadFile", "([BI)J", load_file),
      native("shapes", "(J)[I", shapes),
      native("run", "(J[F[F)V", run),
      native("runDirect", "(JLjava/nio/FloatBuffer;IILjava/nio/FloatBuffer;II)V", run_direct),
      native("profile", "(J[FI)[Lio/github/jcw/Step;", profile),
      native("free", "(J)V", free_model),
      native("version", "()[B", version),
  };
  return env->RegisterNatives(type, natives, std::size(natives)) == JNI_OK ? JNI_VERSION_1_6 : JNI_ERR;
}
