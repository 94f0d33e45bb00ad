//===- Module.cpp - kvc._kvc: the runtime and the driver for Python -------===//
//
// Thin classes over the C interface of the runtime and lib/Driver; python/kvc makes of them what people use. The GIL is
// released while compiling, loading and running.
//
//===----------------------------------------------------------------------===//
#include "Bridge.h"

#include "kvc/Driver/LanguageModel.h"
#include "kvc_runtime.hpp"
#include "text/ChatTemplate.h"

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <mutex>

namespace py = pybind11;
using namespace kvc;
using runtime::check;

namespace {

using Release = py::gil_scoped_release;

[[noreturn]] void raise(const Status &status) { throw runtime::Error(kvc_status_t(status.code()), status.message()); }

template <typename T> T unwrap(Result<T> result) {
  if (!result.ok()) {
    raise(result.status());
  }
  return std::move(*result);
}

/// NumPy's name of a dtype. NumPy has no bf16: its bits travel as unsigned numbers.
const char *numpyName(kvc_dtype_t dtype) {
  switch (dtype) {
  case KVC_I8:
    return "i1";
  case KVC_U8:
    return "u1";
  case KVC_I16:
    return "i2";
  case KVC_I32:
    return "i4";
  case KVC_I64:
    return "i8";
  case KVC_F16:
    return "f2";
  case KVC_BF16:
    return "u2";
  case KVC_F32:
    return "f4";
  case KVC_F64:
    return "f8";
  case KVC_I1:
    return "?";
  default:
    throw runtime::Error(KVC_INTERNAL, "expects a dtype of the runtime, but got " + std::to_string(dtype));
  }
}

const char *kindName(kvc_kind_t kind) {
  static constexpr const char *names[] = {"tensor", "cache", "batch", "integer", "real"};
  return names[kind];
}

/// A read-only array over the memory of a value, which it keeps alive.
py::array arrayOf(runtime::ValueHandle value) {
  kvc_tensor_t view;
  check(kvc_value_tensor(value.get(), &view));
  std::vector<py::ssize_t> dims(view.dims, view.dims + view.rank);
  py::capsule owner(value.release(), [](void *held) { kvc_value_release(static_cast<kvc_value_t *>(held)); });
  py::array array(py::dtype(numpyName(view.dtype)), dims, view.data, owner);
  array.attr("flags").attr("writeable") = false;
  return array;
}

runtime::Cache cacheOf(const runtime::ValueHandle &value) {
  kvc_cache_t *cache;
  check(kvc_value_cache(value.get(), &cache));
  return runtime::Cache(runtime::CacheHandle(cache));
}

struct Batch {
  runtime::BatchHandle handle;
};

/// A loaded artifact.
class Module {
public:
  Module(const runtime::Device &device, const std::string &bytes)
      : module(runtime::Module::load(device, bytes.data(), bytes.size())) {}

  const runtime::Module &get() const { return module; }

  std::vector<std::string> functions() const {
    std::vector<std::string> names;
    for (size_t i = 0; i < kvc_module_function_count(module.get()); ++i) {
      names.emplace_back(kvc_module_function_name(module.get(), i));
    }
    return names;
  }

  /// Descriptions of the arguments (or results) of a function.
  py::list ports(const std::string &name, bool results) const {
    size_t function = module.function(name.c_str()), count;
    check((results ? kvc_module_result_count : kvc_module_argument_count)(module.get(), function, &count));
    py::list list;
    for (size_t i = 0; i < count; ++i) {
      kvc_port_t port = portOf(function, i, results);
      py::dict entry;
      entry["kind"] = kindName(port.kind);
      entry["type"] = port.ir_type;
      entry["spec"] = port.cache_spec;
      entry["dtype"] = port.kind == KVC_CACHE || port.kind == KVC_BATCH ? "" : kvc_dtype_name(port.dtype);
      entry["numpy"] = port.kind == KVC_CACHE || port.kind == KVC_BATCH ? "" : numpyName(port.dtype);
      list.append(entry);
    }
    return list;
  }

  py::list call(const std::string &name, const py::list &given) const {
    size_t function = module.function(name.c_str()), argumentCount, resultCount;
    check(kvc_module_argument_count(module.get(), function, &argumentCount));
    check(kvc_module_result_count(module.get(), function, &resultCount));
    if (given.size() != argumentCount) {
      throw runtime::Error(KVC_INVALID_ARGUMENT, "expects " + std::to_string(argumentCount) + " arguments, but got " +
                                                     std::to_string(given.size()));
    }
    std::vector<kvc_argument_t> arguments(argumentCount);
    std::vector<std::vector<int64_t>> dims(argumentCount);
    for (size_t i = 0; i < argumentCount; ++i) {
      convert(arguments[i], dims[i], given[i], portOf(function, i, false), i);
    }
    std::vector<kvc_value_t *> raw(resultCount);
    {
      Release release;
      check(kvc_module_call(module.get(), function, arguments.data(), argumentCount, raw.data(), resultCount));
    }
    std::vector<runtime::ValueHandle> values(raw.begin(), raw.end());
    py::list results;
    for (runtime::ValueHandle &value : values) {
      results.append(toPython(std::move(value)));
    }
    return results;
  }

private:
  kvc_port_t portOf(size_t function, size_t index, bool result) const {
    kvc_port_t port;
    check((result ? kvc_module_result : kvc_module_argument)(module.get(), function, index, &port));
    return port;
  }

  static void convert(kvc_argument_t &argument, std::vector<int64_t> &dims, const py::handle &given,
                      const kvc_port_t &port, size_t index) {
    argument.kind = port.kind;
    switch (port.kind) {
    case KVC_TENSOR: {
      auto array = given.cast<py::array>();
      if (!(array.flags() & py::array::c_style) || size_t(array.itemsize()) != kvc_dtype_size(port.dtype)) {
        throw runtime::Error(KVC_INVALID_ARGUMENT, "argument " + std::to_string(index) +
                                                       ": expects an array in C order of " +
                                                       kvc_dtype_name(port.dtype) + ", but got another one");
      }
      dims.assign(array.shape(), array.shape() + array.ndim());
      argument.tensor = {port.dtype, int32_t(dims.size()), dims.data(), array.data()};
      return;
    }
    case KVC_CACHE:
      argument.cache = given.cast<runtime::Cache &>().get();
      return;
    case KVC_BATCH:
      argument.batch = given.cast<Batch &>().handle.get();
      return;
    case KVC_INTEGER:
      argument.integer = given.cast<int64_t>();
      return;
    case KVC_REAL:
      argument.real = given.cast<float>();
      return;
    }
  }

  static py::object toPython(runtime::ValueHandle value) {
    int64_t integer;
    float real;
    switch (kvc_value_kind(value.get())) {
    case KVC_TENSOR:
      return arrayOf(std::move(value));
    case KVC_CACHE:
      return py::cast(cacheOf(value));
    case KVC_INTEGER:
      check(kvc_value_integer(value.get(), &integer));
      return py::int_(integer);
    case KVC_REAL:
      check(kvc_value_real(value.get(), &real));
      return py::float_(real);
    default:
      throw runtime::Error(KVC_INTERNAL, "expects results that are tensors, numbers or caches, but got another kind");
    }
  }

  runtime::Module module;
};

py::dict toDict(const kvc_cache_statistics_t &s) {
  py::dict dict;
  dict["pages_used"] = s.pages_used;
  dict["pages_capacity"] = s.pages_capacity;
  dict["tails_used"] = s.tails_used;
  dict["tails_capacity"] = s.tails_capacity;
  dict["slots_used"] = s.slots_used;
  dict["bytes_used"] = s.bytes_used;
  dict["bytes_allocated"] = s.bytes_allocated;
  return dict;
}

/// A session with a lock: its steps are for one thread at a time, and the GIL does not see to that.
class Session {
public:
  Session(const LanguageModel &model, int32_t sequences, int64_t maxLength)
      : session(unwrap(model.createSession(sequences, maxLength))) {}

  int32_t create() {
    std::lock_guard lock(mutex);
    return unwrap(session.create());
  }
  void free(int32_t sequence) {
    std::lock_guard lock(mutex);
    if (Status status = session.free(sequence); !status.ok()) {
      raise(status);
    }
  }
  kvc_cache_statistics_t statistics() {
    std::lock_guard lock(mutex);
    return unwrap(session.statistics());
  }
  ModelSession::Logits step(const std::vector<std::pair<int32_t, std::vector<int32_t>>> &entries) {
    std::vector<ModelSession::Append> appends;
    for (const auto &[sequence, ids] : entries) {
      appends.push_back({sequence, ids});
    }
    std::lock_guard lock(mutex);
    return unwrap(session.step(appends));
  }

private:
  std::mutex mutex;
  ModelSession session;
};

std::vector<int32_t> encode(const LanguageModel &model, const std::string &text, bool chat) {
  const text::Tokenizer &tokenizer = model.tokenizer();
  return unwrap(chat ? text::encodeChat(tokenizer, {{{"user", text}}}) : tokenizer.encode(text)).ids;
}

void bindRuntime(py::module_ &m) {
  py::register_exception<runtime::Error>(m, "Error", PyExc_RuntimeError).attr("__doc__") =
      "A failure of the compiler (with its diagnostics) or of the runtime.";

  py::class_<runtime::Device>(m, "Device")
      .def(py::init([](const std::string &name, int threads) { return runtime::Device(name.c_str(), threads); }),
           py::arg("name") = "cpu", py::arg("threads") = 0);

  py::class_<Batch>(m, "Batch")
      .def(py::init(
          [](const runtime::Device &device, const std::vector<int32_t> &sequences, const std::vector<int32_t> &rows,
             const std::vector<int32_t> &positions) { return Batch{device.batch(sequences, rows, positions)}; }));

  py::class_<runtime::Cache>(m, "Cache")
      .def(py::init([](const Module &module, size_t spec, int32_t sequences, int64_t capacity, int64_t pages) {
        return module.get().cache(spec, {sizeof(kvc_cache_options_t), sequences, capacity, pages, 0});
      }))
      .def("fork", &runtime::Cache::fork, py::call_guard<Release>())
      .def("truncate", &runtime::Cache::truncate, py::call_guard<Release>())
      .def("clear", &runtime::Cache::clear, py::call_guard<Release>())
      .def("length", &runtime::Cache::length)
      .def("position", &runtime::Cache::position)
      .def("clone", &runtime::Cache::clone, py::call_guard<Release>())
      .def("statistics", [](const runtime::Cache &cache) { return toDict(cache.statistics()); });

  py::class_<Module>(m, "Module")
      .def(py::init([](const runtime::Device &device, const py::bytes &bytes) {
        std::string copy = bytes;
        Release release;
        return std::make_unique<Module>(device, copy);
      }))
      .def("functions", &Module::functions)
      .def("arguments", [](const Module &module, const std::string &name) { return module.ports(name, false); })
      .def("results", [](const Module &module, const std::string &name) { return module.ports(name, true); })
      .def("bind_weights",
           [](Module &module, const std::string &path) {
             check(kvc_module_bind_weights(module.get().get(), path.c_str()));
           })
      .def("call", &Module::call);
}

void bindModels(py::module_ &m) {
  py::class_<LanguageModel>(m, "LanguageModel")
      .def(py::init([](const std::string &path, const std::string &kv, int64_t page, const std::string &method,
                       const std::vector<std::string> &methodArgs, int threads) {
        LanguageModelOptions options;
        options.path = path;
        options.kv = kv;
        options.page = page;
        options.method = method;
        options.methodArgs = methodArgs;
        options.threads = threads;
        Release release;
        return unwrap(LanguageModel::load(options));
      }))
      .def("encode", &encode)
      .def("decode",
           [](const LanguageModel &model, const std::vector<int32_t> &ids) {
             return py::bytes(unwrap(model.tokenizer().decode(ids, /*showSpecial=*/false)));
           })
      .def("is_end", [](const LanguageModel &model, int32_t id) { return model.tokenizer().isEnd(id); })
      .def("effective_bits", [](const LanguageModel &model, double bytes,
                                double slots) { return effectiveBits(model.facts(), bytes, slots); })
      .def_property_readonly("target", &LanguageModel::target)
      .def_property_readonly("facts", [](const LanguageModel &model) {
        const ModelFacts &facts = model.facts();
        py::dict dict;
        dict["layers"] = facts.layers;
        dict["kv_heads"] = facts.kvHeads;
        dict["dim"] = facts.dim;
        dict["v_dim"] = facts.vDim;
        dict["vocabulary"] = facts.vocabulary;
        dict["context"] = facts.context;
        return dict;
      });

  py::class_<Session>(m, "Session")
      .def(py::init<const LanguageModel &, int32_t, int64_t>(), py::keep_alive<1, 2>())
      .def("create", &Session::create, py::call_guard<Release>())
      .def("free", &Session::free, py::call_guard<Release>())
      .def("statistics",
           [](Session &session) {
             kvc_cache_statistics_t statistics;
             {
               Release release;
               statistics = session.statistics();
             }
             return toDict(statistics);
           })
      .def("step", [](Session &session, const std::vector<std::pair<int32_t, std::vector<int32_t>>> &entries) {
        ModelSession::Logits logits;
        {
          Release release;
          logits = session.step(entries);
        }
        return py::array_t<float>({logits.rows, logits.vocabulary}, logits.data);
      });
}

} // namespace

PYBIND11_MODULE(_kvc, m) {
  m.doc() = "The compiler and the runtime of kvc; use the package kvc.";
  bindRuntime(m);
  bindModels(m);
  m.def("compile", [](const std::string &text, const std::string &name, const std::string &target) {
    std::vector<uint8_t> bytes;
    {
      Release release;
      bytes = unwrap(python::compileText(text, name, target));
    }
    return py::bytes(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  });
  m.def("check_cache_type", [](const std::string &text) {
    if (Status status = python::checkCacheType(text); !status.ok()) {
      raise(status);
    }
  });
  m.def("host_target", &python::hostTarget);
  m.def("cache_folder", &python::cacheFolder);
  m.attr("__version__") = kvc_version();
}
