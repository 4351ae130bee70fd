"""Register the bundled components: names, import strings and summaries; nothing heavy is imported here."""

from slideseek.hookspecs import Register, hookimpl


@hookimpl
def register_selectors(register: Register) -> None:
    here = "slideseek_components.selectors"
    register("mosaic", f"{here}.mosaic:Mosaic", "Yottixel's mosaic: colour clusters, then spatial clusters")
    register("grid", f"{here}.grid:Grid", "every tissue patch of a regular grid")
    register("random", f"{here}.random:Random", "a random sample of the tissue patches")
    register("sdm", f"{here}.sdm:Sdm", "one patch per distance from the slide's mean colour")
    register("splice", f"{here}.splice:Splice", "drops patches with a colour similar to one already taken")
    register("imported", f"{here}.imported:Imported", "patches of features imported from another tool")


@hookimpl
def register_featurizers(register: Register) -> None:
    here = "slideseek_components.featurizers"
    lite = f"{here}.efficientnet_lite"
    register("efficientnet-lite2", f"{lite}:EfficientNetLite2", "ImageNet EfficientNet-Lite2, 1280 features, offline")
    register("efficientnet-lite0", f"{lite}:EfficientNetLite0", "ImageNet EfficientNet-Lite0, the small one")
    register("colour-texture", f"{here}.colour_texture:ColourTexture", "colour and texture histograms, no weights")
    register("densenet121", f"{here}.densenet:DenseNet121Features", "DenseNet-121, 1024 features, your weights file")
    register("kimianet", f"{here}.densenet:KimiaNet", "DenseNet-121 trained on TCGA, 1024 features, your weights file")
    register("timm", f"{here}.timm_model:TimmModel", "any timm network, from a file, a folder or a pinned hub commit")
    register("lazyslide", f"{here}.lazyslide_model:LazySlideFeaturizer", "a patch encoder of lazyslide-models")
    register("lazyslide-text", f"{here}.lazyslide_model:LazySlideText", "its image-text models: text finds slides")
    register("onnx", f"{here}.onnx_model:OnnxModel", "any network in one ONNX file")
    register("macenko", f"{here}.macenko:Macenko", "another featurizer, on patches with normalised H&E colours")
    register("imported", f"{here}.imported:Imported", "features imported from another tool")


@hookimpl
def register_encoders(register: Register) -> None:
    here = "slideseek_components.encoders"
    register("yottixel", f"{here}.yottixel:Yottixel", "one barcode per patch: the sign of successive differences")
    register("mean", f"{here}.mean:Mean", "mean of the patch features")
    register("max", f"{here}.max:Max", "largest value of each feature over the patches")
    register("bovw", f"{here}.bovw:Bovw", "bag of visual words: how often each word of a codebook occurs")
    register("vlad", f"{here}.vlad:Vlad", "differences to the words of a codebook, summed")
    register("gmm-fv", f"{here}.gmm_fv:GmmFisher", "Fisher vector of a Gaussian mixture")
    register("c-gmm-fv", f"{here}.c_gmm_fv:ConditionedGmmFisher", "Fisher vector of one Gaussian mixture per site")
    register("deep-fv", f"{here}.deep_fv:DeepFisherVector", "Fisher vector of a conditioned VAE")
    register("deep-sfv", f"{here}.deep_sfv:DeepSparseFisherVector", "sparse deep-fv: trained for a sparse gradient")
    register(
        "deep-bfv", f"{here}.deep_bfv:DeepBinaryFisherVector", "binary deep-fv: the signs of the gradient, as bits"
    )
    register(
        "deep-sbfv",
        f"{here}.deep_sbfv:DeepSparseBinaryFisherVector",
        "sparse and binary deep-fv: the most informative bits",
    )
    register("prototypes", f"{here}.prototypes:Prototypes", "a Gaussian mixture adapted to each slide (PANTHER)")
    register("deep-sets", f"{here}.deep_sets:DeepSets", "a network over the mean patch, trained on labels")
    register("attention-mil", f"{here}.attention_mil:AttentionMil", "gated attention pooling, trained on labels")
    register("memory-set", f"{here}.memory_set:MemorySet", "memory network over patches (MEM), trained on labels")
    register(
        "focal-attention", f"{here}.focal_attention:FocalAttention", "attention with a focal factor, trained on labels"
    )
    register("imported", f"{here}.imported:Imported", "the vector of a whole slide, imported from another tool")
    register("lazyslide", f"{here}.lazyslide_slide:LazySlideEncoder", "a slide encoder of lazyslide-models")
    register("lazyslide-text", f"{here}.lazyslide_slide:LazySlideTextEncoder", "its slide encoders that encode text")
    register("joined", f"{here}.joined:Joined", "several float codes side by side, each with the same say")
    register("projected", f"{here}.projected:Projected", "a float code projected on what separates classes, as bits")


@hookimpl
def register_readers(register: Register) -> None:
    here = "slideseek_components.readers"
    register(
        "isolated", f"{here}.isolated_reader:IsolatedReader", "any file, decoded by a process of its own, with limits"
    )
    register("openslide", f"{here}.openslide_reader:OpenSlideReader", "whole-slide formats, read with OpenSlide")
    register("idc", f"{here}.idc_manifest:IdcManifest", "lists the slides of the Imaging Data Commons")
    register("remote", f"{here}.remote_reader:RemoteReader", "slides at URLs: s3://, gs://, https:// and others")
    register("dicom", f"{here}.dicom_reader:DicomReader", "DICOM series at URLs and of DICOMweb, read with wsidicom")
    register("tiff", f"{here}.tiff_reader:TiffReader", "TIFFs that OpenSlide does not read, decoded whole")
    register("image", f"{here}.image_reader:ImageReader", "plain images, such as PNG and JPEG, decoded whole")


@hookimpl
def register_indexes(register: Register) -> None:
    here = "slideseek_components.indexes"
    register("hamming", f"{here}.hamming:Hamming", "exact Hamming; median of minima between sets of barcodes")
    register("cosine", f"{here}.cosine:Cosine", "exact cosine distance between float codes")
    register("sparse", f"{here}.sparse:Sparse", "exact cosine distance between sparse codes, by inverted lists")
    register("annoy", f"{here}.annoy_forest:Annoy", "approximate: a forest of random splits; measures its recall")
    register("faiss-binary", f"{here}.faiss_binary:FaissBinary", "approximate Hamming: inverted lists or HNSW")
    register("pgvector", f"{here}.pgvector:PgVector", "codes in PostgreSQL, on one server or several; exact, or HNSW")
    register("lance", f"{here}.lance:Lance", "bits in a Lance table: a folder or an object store, no server; exact")
    register("milvus", f"{here}.milvus:Milvus", "bits in a Milvus collection; exact, at most 32,768 bits")


@hookimpl
def register_rerankers(register: Register) -> None:
    here = "slideseek_components.rerankers"
    register("median-of-min", f"{here}.median_of_min:MedianOfMin", "median over patches of the distance to the nearest")
    register("set-cosine", f"{here}.set_cosine:SetCosine", "mean over patches of the best cosine")


@hookimpl
def register_executors(register: Register) -> None:
    here = "slideseek_components.executors"
    register("local", f"{here}.local:Local", "this process, which reads the next slides meanwhile")
